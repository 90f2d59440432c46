"""Rules learned from outcomes: kept per family of targets with their evidence, offered to later runs, withdrawn when
contradicted. No model is asked for them.
"""
