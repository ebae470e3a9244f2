"""When an entry no longer describes what is installed and published, and which of them is run again first."""
