"""What somebody who signed in may do."""
