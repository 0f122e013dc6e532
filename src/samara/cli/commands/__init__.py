"""The commands of `samara`, one module each. A module is imported when its command is needed."""
