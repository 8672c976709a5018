"""Names of other libraries: the error says what they are called here."""

import pytest

import pellucid
from pellucid.renamed import RENAMED


@pytest.mark.parametrize("name", RENAMED)
def test_another_librarys_name_is_answered_with_ours(name):
    with pytest.raises(AttributeError, match=rf"no attribute '{name}'; here that is {RENAMED[name]}"):
        getattr(pellucid, name)
    if not RENAMED[name].startswith("nothing"):
        assert hasattr(pellucid, RENAMED[name])


def test_a_name_that_nobody_has_is_missing_as_usual():
    with pytest.raises(AttributeError, match=r"^module 'pellucid' has no attribute 'Compsoe'$"):
        pellucid.Compsoe  # noqa: B018
    assert not hasattr(pellucid, "Compsoe")
