"""Operators that mark the batch for those behind them, before advantages."""
