"""What runs on the GPU: kernel sources, specs, build, launch, verify, bench."""
