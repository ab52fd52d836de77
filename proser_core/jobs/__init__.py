"""Trainings as data, the worker that runs them, and the folders of finished work that they write."""
