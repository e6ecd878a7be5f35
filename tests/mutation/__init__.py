"""What the tests would not notice: a module is changed in one place, and a test has to fail."""
