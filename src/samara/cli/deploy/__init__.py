"""What an installation in a cluster is made of, and how it is taken back."""
