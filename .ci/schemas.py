"""Writes the schemas of Kubernetes objects for kubeconform: schemas.py FOLDER SCHEMA...

The package kubernetes-validate has them, with references to one file of definitions. Each file
written here has its definitions in itself.
"""

import json
import pathlib
import sys

import kubernetes_validate

VERSION = "v1.37.0-local-strict"

source = pathlib.Path(kubernetes_validate.__file__).parent / "kubernetes-json-schema" / VERSION
folder = pathlib.Path(sys.argv[1])


def read(name):
    """A schema whose references are within its own file."""
    return json.loads((source / name).read_text().replace("/api/_definitions.json#", "#"))


definitions = read("_definitions.json")["$defs"]
folder.mkdir(parents=True, exist_ok=True)
for name in sys.argv[2:]:
    (folder / name).write_text(json.dumps({**read(name), "$defs": definitions}))
