"""Pipelines as graphs of standard operators: ``torch.export`` programs and ONNX.

Owns: the public names for exporting.
Must not: make graphs.
Read next: ``pipeline/graphs.py``.
"""

from pellucid.pipeline.graphs import evaluation_graph, export_pipeline, maps_to_picture

__all__ = ["evaluation_graph", "export_pipeline", "maps_to_picture"]
