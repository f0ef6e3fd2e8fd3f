"""What every room stands on: the database, events, auth, errors, ids, the clock and the HTTP layer."""
