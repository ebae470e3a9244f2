"""What a run observed becomes checks, measurements and culprits."""
