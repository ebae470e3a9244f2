"""Where two runs of one model first differ, by fingerprints that add up over ranks."""
