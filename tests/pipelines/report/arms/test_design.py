"""Which arms a matrix has: worked by hand."""

from __future__ import annotations

from pipelines.report.arms.design import Design


def test_the_arms_are_the_cells_of_the_axes_that_vary() -> None:
    shared, first, second = {}, {"lr": "0.1", "size": "small"}, {"lr": "0.2", "size": "small"}
    design = Design.of([shared, first, second, first])
    assert design.axes == {"lr": ["0.1", "0.2"]}
    assert [arm.title for arm in design.arms] == ["lr=0.1", "lr=0.2"]
    assert design.shared(shared) and design.shared({"size": "small"}) and not design.shared(first)
    assert [design.colour(cell) for cell in (shared, first, second)] == [0, 0, 1]


def test_a_stage_with_some_of_the_axes_belongs_to_several_arms() -> None:
    cells = [{"lr": lr} for lr in "12"] + [{"lr": lr, "method": method} for lr in "12" for method in ("a", "b")]
    design = Design.of(cells)
    assert [arm.title for arm in design.arms] == [
        "lr=1, method=a",
        "lr=1, method=b",
        "lr=2, method=a",
        "lr=2, method=b",
    ]
    assert [arm.covers({"lr": "2"}) for arm in design.arms] == [False, False, True, True]


def test_the_baseline_is_the_arm_of_that_name_else_the_first() -> None:
    assert Design.of([{"arm": "dapo"}, {"arm": "baseline"}]).baseline.title == "baseline"
    assert Design.of([{"arm": "dapo"}, {"arm": "grpo"}]).baseline.title == "dapo"


def test_without_a_matrix_there_are_no_arms() -> None:
    assert not Design.of([{}, {}]).arms and not Design.of([{"arm": "only"}]).arms and not Design.of([]).arms
