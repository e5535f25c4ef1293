"""What a report means: frames, bubble account, diagnosis, regression."""
