"""GPUs as the driver describes them."""
