"""Whom experiments are about: your own table as features, and the made-up problems of the landscape."""
