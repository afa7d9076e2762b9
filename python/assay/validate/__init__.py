"""Predictions against measurements that entered no fit."""
