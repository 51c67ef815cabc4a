"""ONNX: QDQ graphs in int8, float graphs, both read; int8 graphs written; originals patched."""
