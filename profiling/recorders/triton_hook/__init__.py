"""What runs inside a Triton program while its launches are tried with other settings."""
