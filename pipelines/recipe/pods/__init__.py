"""What a pool may say of its pods beyond cores, memory and GPUs, with the words and checks of Kubernetes."""
