"""Cases for checked builds, by what they are about."""

from tests.cases.checked import bounds, lanes, numbers, protocols, races, unwritten

CASES = tuple(case for family in (bounds, unwritten, races, protocols, lanes, numbers) for case in family.CASES)
