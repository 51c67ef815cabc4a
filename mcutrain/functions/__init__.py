"""What the commands do, as functions: `mcutrain.plan`, `mcutrain.analyze`, and so on.

Arguments in, a frozen result out. Nothing is printed; every error that an input can cause is a
McutrainError; what is worth knowing but no error is a Python warning.
"""
