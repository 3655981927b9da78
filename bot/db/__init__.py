"""The database: rows, and the one place that speaks SQL."""
