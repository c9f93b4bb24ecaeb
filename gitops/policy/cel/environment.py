"""The engine (cel-cpp) with the functions that an API server has on top of CEL.

What this engine does not know it does not compile, so that a rule is "unchecked" and never passed. What
it offers beyond an API server does no harm, since a server takes no definition with a rule that it cannot compile.
"""

from __future__ import annotations

import functools
from typing import Any

from cel_expr_python import cel
from cel_expr_python.ext import ext_math, ext_optional, ext_strings

from gitops.policy.cel import library


@functools.cache
def environment(variables: tuple[str, ...]) -> Any:
    """The engine over variables of any type. One for each set of names: making one takes about a millisecond."""
    return cel.NewEnv(
        variables=dict.fromkeys(variables, cel.Type.DYN),
        extensions=[
            ext_optional.ExtOptional(),
            ext_strings.ExtStrings(),
            ext_math.ExtMath(),
            cel.CelExtension("kubernetes", library.declarations()),
        ],
    )
