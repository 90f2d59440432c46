"""Operator files: how they are written (`declare`) and read (`load`)."""
