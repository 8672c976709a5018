"""No function of ours writes to what it was given: the source is searched for it, and the search is tested."""

import ast
import fnmatch
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "pellucid"

# (file pattern, function pattern, what it may do, reason). Anything else that matches is a defect.
ALLOWED = [
    ("*", "*", "requires_grad_", "marks a fresh leaf; writes no values"),
    ("kernels/*/cpu*", "*", "*", "Numba kernels fill buffers that their caller has just allocated"),
    ("kernels/stages/printed/*.py", "*", "*", "Numba kernels fill buffers that their caller has just allocated"),
    ("kernels/stages/sums.py", "*", "*", "Numba kernels fill buffers that their caller has just allocated"),
    (
        "kernels/color/sums.py",
        "channel_means",
        "subscript assignment",
        "Numba kernels fill buffers that their caller has just allocated",
    ),
    ("kernels/interleaving.py", "*", "subscript assignment", "Numba kernels fill buffers that their caller has just allocated"),
    ("engine/drawing.py", "_drawn", "subscript assignment", "rows of words that the function's two callers have just made"),
    ("kernels/levels.py", "*", "subscript assignment", "Numba kernels fill buffers that their caller has just allocated"),
    ("kernels/lookups.py", "_by_bits", "subscript assignment", "Numba kernels fill buffers that their caller has just allocated"),
    ("kernels/lookups.py", "_of_16s", "and_", "instructions of the compiler, not methods of tensors"),
    ("kernels/explicit.py", "back", "zero_", "gradients that the function has just allocated"),
    ("kernels/explicit.py", "add_up", "copy_", "gradients that the function has just allocated"),
    ("kernels/*/triton/__init__.py", "_fill", "out=", "a result that the caller has just allocated"),
    ("kernels/vectors.py", "*", ".data", "the address of an array in compiled code, not a tensor's attribute"),
    ("kernels/color/passes.py", "_backward", "zero_", "gradients that the function has just allocated"),
    ("pipeline/applying.py", "_unwarp", "subscript assignment", "what was solved is kept for the other targets of the call"),
    ("kernels/bytewise/[lms]*.py", "*", "*", "Numba kernels fill buffers that their caller has just allocated"),
    ("kernels/*/triton/*.py", "*_back*", "zero_", "gradients that the function has just allocated"),
    ("kernels/blend/triton/__init__.py", "_back", "copy_", "gradients that the function has just allocated"),
    ("kernels/narrow.py", "*", ".data", "the address of an array in compiled code, not a tensor's attribute"),
    ("core/compilers/ahead.py", "on_start", ".data", "what an event of Numba's tells, not a tensor's attribute"),
    ("kernels/narrow.py", "_narrowed", "*", "instructions of the compiler, not methods of tensors"),
    ("random/philox_triton.py", "philox", "augmented assignment", "names of a Triton function's registers"),
    ("nn/*.py", "*", "add_", "running statistics are buffers of the module, updated as torch.nn does"),
    ("nn/*.py", "*", "lerp_", "running statistics are buffers of the module, updated as torch.nn does"),
    ("nn/*.py", "*", "copy_", "running statistics are buffers of the module, updated as torch.nn does"),
    ("policy/adversarial.py", "update", "copy_", "the controller sets parameters of its own, without gradient"),
    ("pipeline/worst_search.py", "untouched", "copy_", "buffers of the caller's modules get back what they held before the search"),
    ("random/stream.py", "claim_*", "add_", "the step counter is a buffer of the pipeline that draws"),
    ("random/stream.py", "claim", "add_", "the step counter is a buffer of the pipeline that draws"),
    ("random/stream.py", "claim", "copy_", "the step counter is a buffer of the pipeline that draws"),
    ("pipeline/*.py", "_save_to_state_dict", "subscript assignment", "torch hands over the dict to fill"),
    ("pipeline/estimators/parameters.py", "take", "copy_", "parameters are set to those of another pipeline"),
    ("data/volumes.py", "write", "subscript assignment", "voxels of a file that the function writes"),
    ("core/slabs.py", "by_slabs", "subscript assignment", "rows of a result that the function has just allocated, or was lent"),
    ("kernels/pages.py", "_shared", "set_", "an empty tensor that was just made gets its memory"),
    ("core/tape/machine.py", "play", "subscript assignment", "a Numba function fills a buffer that its caller has just allocated"),
    ("features/hardnet.py", "_initialise", "orthogonal_", "a fresh network gets its first weights"),
    ("features/keypoint_net.py", "__init__", "kaiming_normal_", "a fresh network gets its first weights"),
    ("features/keypoint_net.py", "__init__", "zeros_", "a fresh network gets its first weights"),
    ("features/train/descriptor.py", "_follow", "copy_", "a running average of the weights, owned by the run, without gradient"),
    ("features/train/joint.py", "step", "clip_grad_norm_", "gradients between backward and the optimiser's step"),
    ("learn/teach.py", "follow", "lerp_", "the teacher is a running average of the student, without gradient"),
    ("learn/teach.py", "follow", "copy_", "the teacher is a running average of the student, without gradient"),
    ("random/compiled.py", "fill", "*", "a Numba kernel fills a buffer that its caller has just allocated"),
    ("training/distributed.py", "set_rate", "subscript assignment", "torch's optimisers read their rate from a dict"),
    ("data/samples.py", "__init__", "share_memory_", "the stream's own counter, which its workers see"),
    ("data/samples.py", "epoch", "fill_", "the stream's own counter, which its workers see"),
    ("audit/subject.py", "placed", ".data", "the audit moves a module to another precision, and back afterwards"),
    ("audit/*.py", "*", "copy_", "the audit puts back the buffers of the module it examined"),
]

# Calls whose result shares memory with the tensor they are called on.
VIEWS = {
    "chunk", "contiguous", "data", "detach", "diagonal", "expand", "expand_as", "flatten", "mT", "T", "movedim", "narrow",
    "permute", "ravel", "reshape", "select", "split", "squeeze", "swapaxes", "to", "transpose", "unbind", "unflatten", "unfold",
    "unsqueeze", "view",
}  # fmt: skip
# Annotations of values that cannot be written to: ``count += 1`` on an int is no write.
IMMUTABLE = {"int", "float", "str", "bool", "bytes", "tuple"}
# A container handed over to collect results in is not a tensor.
CONTAINERS = {"dict", "list", "set"}


class Search(ast.NodeVisitor):
    """Collect (line, function, what) for every write to an argument, and every ``.data`` and ``method_()`` at all."""

    def __init__(self):
        self.found, self.function, self.shared = [], "module", set()

    def visit_FunctionDef(self, node):
        outer = self.function, self.shared
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg]
        names = {a.arg for a in arguments if a is not None and not harmless(a.annotation)} - {"self", "cls"}
        self.function, self.shared = node.name, (self.shared | names)
        self.generic_visit(node)
        self.function, self.shared = outer

    def visit_Assign(self, node):
        for target in node.targets:
            self.check_write(target)
        self.generic_visit(node)
        self.track(node.targets, node.value)

    def visit_AnnAssign(self, node):
        self.check_write(node.target)
        self.generic_visit(node)
        if node.value is not None:
            self.track([node.target], node.value)

    def visit_AugAssign(self, node):
        if isinstance(node.target, ast.Name):
            self.report(node, "augmented assignment", node.target.id in self.shared)
        self.check_write(node.target)
        self.generic_visit(node)

    def visit_For(self, node):
        self.track([node.target], node.iter)
        self.generic_visit(node)

    def visit_Call(self, node):
        if isinstance(node.func, ast.Attribute) and node.func.attr.endswith("_") and not node.func.attr.endswith("__"):
            self.report(node, node.func.attr, not node.func.attr.startswith("_"))
        for keyword in node.keywords:
            self.report(node, "out=", keyword.arg == "out" and root(keyword.value) in self.shared)
        self.generic_visit(node)

    def visit_Attribute(self, node):
        self.report(node, ".data", node.attr == "data" and isinstance(node.ctx, ast.Load))
        self.generic_visit(node)

    def check_write(self, target):
        if isinstance(target, ast.Tuple | ast.List):
            for part in target.elts:
                self.check_write(part)
        elif isinstance(target, ast.Subscript):
            self.report(target, "subscript assignment", root(target) in self.shared)

    def track(self, targets, value):
        """A name bound to an argument, or to a view of one, is an argument too; bound to anything else it is free again."""
        aliases = root(value) in self.shared
        for target in targets:
            for name in (n for n in ast.walk(target) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)):
                (self.shared.add if aliases else self.shared.discard)(name.id)

    def report(self, node, what, condition):
        if condition:
            self.found.append((node.lineno, self.function, what))


def harmless(annotation):
    outermost = annotation.value if isinstance(annotation, ast.Subscript) else annotation
    if isinstance(outermost, ast.Name) and outermost.id in CONTAINERS:
        return True
    names = {n.id for n in ast.walk(annotation) if isinstance(n, ast.Name)} if annotation is not None else set()
    return bool(names) and names <= IMMUTABLE


def root(node):
    """The name that an expression shares memory with, through subscripts, attributes and views; None if it makes something new."""
    while True:
        if isinstance(node, ast.Name):
            return node.id
        reaches_in = isinstance(node, ast.Attribute) and (node.attr in VIEWS or isinstance(node.value, ast.Name))
        if reaches_in or isinstance(node, ast.Subscript | ast.Starred):
            node = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in VIEWS:
            node = node.func.value
        else:
            return None


def search(source):
    visitor = Search()
    visitor.visit(ast.parse(source))
    return visitor.found


def allowed(path, function, what):
    return any(
        fnmatch.fnmatch(path, files) and fnmatch.fnmatch(function, functions) and fnmatch.fnmatch(what, deeds)
        for files, functions, deeds, _ in ALLOWED
    )


@pytest.mark.parametrize("path", sorted(p.relative_to(SOURCE).as_posix() for p in SOURCE.rglob("*.py")))
def test_source_does_not_write_to_its_arguments(path):
    found = search((SOURCE / path).read_text(encoding="utf-8"))
    defects = [f"{path}:{line} in {function}: {what}" for line, function, what in found if not allowed(path, function, what)]
    assert not defects, "\n".join(defects)


@pytest.mark.parametrize(
    "body",
    [
        "x[0] = 1",
        "x[..., 0], y = 1, 2",
        "x += 1",
        "x[0] += 1",
        "x.add_(1)",
        "x.sin().add_(1)",
        "x.data",
        "torch.add(x, 1, out=x)",
        "y = x.view(-1)\n    y[0] = 1",
        "y, z = x.unbind(0)\n    y += z",
        "for row in x:\n        row += 1",
        "y = x[0]\n    y[0] = 1",
        "def inner():\n        x[0] = 1",
    ],
)
def test_the_search_finds(body):
    assert search(f"def f(x):\n    {body}\n"), body


@pytest.mark.parametrize(
    "body",
    [
        "x = x + 1\n    x += 1",
        "y = x.clone()\n    y[0] = 1",
        "y = [0]\n    y[0] = x",
        "n = 0\n    n += 1",
        "x.__len__()",
        "torch.add(x, 1)",
    ],
)
def test_the_search_lets_pass(body):
    assert search(f"def f(x):\n    {body}\n") == []


def test_numbers_may_be_counted_up():
    assert search("def f(n: int, size: tuple[int, int] | None):\n    n += 1\n") == []
    assert search("def f(n):\n    n += 1\n")


def test_dictionaries_may_collect_results():
    assert search("def f(found: dict[str, Tensor]):\n    found['x'] = 1\n") == []
    assert search("def f(found: Tensor):\n    found['x'] = 1\n")


def test_every_exception_has_a_reason():
    assert all(len(reason) > 20 for *_, reason in ALLOWED)
