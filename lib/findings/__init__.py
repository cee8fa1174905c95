"""Sentences written from tables, a module an analysis; every number comes from the table."""
