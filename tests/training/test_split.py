"""No prompt, and no conversation at another depth, is on both sides of a split."""

import numpy as np

from lib.data.items import Builder
from lib.training import split


def user(text, *more):
    turns = [{"role": "user", "content": text}]
    for answer, question in more:
        turns += [{"role": "assistant", "content": answer}, {"role": "user", "content": question}]
    return turns


def test_depth_case_and_space_do_not_move_a_conversation():
    opening = split.opening(user("How are  you?"))
    assert split.opening(user("how are you? ", ("Well.", "And now?"))) == opening
    assert split.opening(user("How is he?")) != opening


def test_about_the_share_is_held_out_and_it_depends_on_the_prompt_alone():
    prompts = [user(f"question {i}") for i in range(4000)]
    out = split.held_out(prompts)
    assert 0.17 < out.mean() < 0.23
    assert (split.held_out(prompts[::-1]) == out[::-1]).all()


def test_groups_join_comparisons_of_one_opening():
    builder = Builder("made-up")
    builder.add("a", user("x"), ["1", "2", "3"], [(0, 1, "c", "s"), (0, 2, "c", "s")])
    builder.add("b", user("y"), ["1", "2"], [(0, 1, "c", "s")])
    builder.add("c", user("X", ("ok", "z")), ["1", "2"], [(0, 1, "c", "s")])
    group = split.groups(builder.build())
    assert group[0] == group[1] == group[3] != group[2]
    assert np.array_equal(np.unique(group), [0, 1])
