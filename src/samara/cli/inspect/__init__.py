"""What several commands find out about a cluster before they print it."""
