"""Small trainable modules beside the frozen layers of an int8 network, as nodes of its graph.

`augment` puts them in, `parse_modules` reads which. A module that has learnt nothing changes no bit
of any output. What of them is trained is said in mcutrain.sparse.modules.
"""

from mcutrain.modules.graft import Augmented, Module
from mcutrain.modules.merge import Merged, merged
from mcutrain.modules.numbers import numbers_of
from mcutrain.modules.observe import observe
from mcutrain.modules.pet import Pet, parse_pet
from mcutrain.modules.places import places_of
from mcutrain.modules.put import augment, observed_tensors
from mcutrain.modules.spec import ModuleSpec, parse_modules

__all__ = [
    "Augmented",
    "Merged",
    "Module",
    "ModuleSpec",
    "Pet",
    "augment",
    "merged",
    "numbers_of",
    "observe",
    "observed_tensors",
    "parse_modules",
    "parse_pet",
    "places_of",
]
