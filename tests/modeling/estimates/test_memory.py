"""The settings of the allocator and the kernel: wishes that change no value."""

from __future__ import annotations

import torch

from components.modeling.native.allocator import back_with_huge_pages


def test_huge_pages_change_no_value() -> None:
    large, small = torch.arange(3 << 19), torch.arange(5)
    back_with_huge_pages(large[3:], small)
    assert torch.equal(large, torch.arange(3 << 19))
    assert small.tolist() == [0, 1, 2, 3, 4]
