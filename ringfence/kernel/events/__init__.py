"""Events: immutable facts, numbered and hash-chained; the audit log, the live feed and every replay."""
