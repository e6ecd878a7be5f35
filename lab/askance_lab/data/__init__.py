"""The data of experiments: features of a user's own table, and the made-up problems of the landscape."""
