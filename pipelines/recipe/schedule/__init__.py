"""The section `schedule` of a recipe: when its runs start by themselves."""
