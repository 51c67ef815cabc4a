"""python -m mcutrain.cli"""

from mcutrain.cli import main

main()
