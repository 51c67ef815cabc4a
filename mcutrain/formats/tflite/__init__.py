"""TFLite: int8 and float graphs read; int8 graphs written; originals patched."""
