"""Characters that would act rather than be seen, made visible."""

from __future__ import annotations

PICTURES = {code: chr(0x2400 + code) for code in range(32) if chr(code) not in "\n\t"}
PICTURES |= {code: "\ufffd" for code in range(0x7F, 0xA0)}
_DIRECTION = (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
PICTURES |= {code: f"[U+{code:04X}]" for code in _DIRECTION}


def visible(text: str) -> str:
    """Control codes as their pictures (ESC is ␛) and direction marks by name; breaks stay."""
    return text.translate(PICTURES)
