"""No prompt, and no conversation at another depth, is on both sides of a split."""

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


def test_about_the_shares_and_the_side_depends_on_the_prompt_alone():
    prompts = [user(f"question {i}") for i in range(4000)]
    side = split.side(prompts)
    assert 0.17 < (side == "held_out").mean() < 0.23
    assert 0.13 < (side == "choose").mean() < 0.19
    assert (split.side(prompts[::-1]) == side[::-1]).all()
    assert set(side) == set(split.SIDES)
