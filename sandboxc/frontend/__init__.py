"""Front ends: a policy text becomes typed values that know where they stand."""
