"""Names of other libraries: the error says what they are called here."""

import re
from functools import reduce

import pytest

import pellucid.policy
from pellucid.core.foreign_names import names_here

HERE = {name: here for name, here in names_here(pellucid.ALL).items() if name not in pellucid.__all__}


@pytest.mark.parametrize(("name", "here"), HERE.items())
def test_another_librarys_name_is_answered_with_ours(name, here):
    with pytest.raises(AttributeError, match=rf"no attribute '{name}'; here that is {re.escape(here)}"):
        getattr(pellucid, name)
    if not here.startswith("nothing"):
        assert callable(reduce(getattr, here.split("."), pellucid))


def test_a_name_that_nobody_has_is_missing_as_usual():
    with pytest.raises(AttributeError, match=r"^module 'pellucid' has no attribute 'Compsoe'$"):
        pellucid.Compsoe  # noqa: B018
    assert not hasattr(pellucid, "Compsoe")


def test_a_name_in_other_letters_is_answered_with_ours():
    with pytest.raises(AttributeError, match=r"no attribute 'Mixup'; did you mean MixUp\?"):
        pellucid.Mixup  # noqa: B018
