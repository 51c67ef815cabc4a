"""The intermediate representation: graphs of operators over quantized tensors."""
