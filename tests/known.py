"""Cases that fail and are to be mended: each with its reason, expected to fail until then.

Owns: that list.
Must not: grow.
Read next: ``conftest.py``.
"""

SIZES = "a draw that decides sizes is planned anew for each size, and ends alike where few sizes can be drawn"
KNOWN = {
    "test_sizes.py::test_plans_are_those_that_would_be_made[RandomShortestSize": SIZES,
    "test_sizes.py::test_a_size_not_seen_before_gives_the_bits_of_a_pipeline_of_its_own[RandomBoxSafeCrop": SIZES,
    "test_sizes.py::test_a_size_not_seen_before_gives_the_bits_of_a_pipeline_of_its_own[RandomMaskCrop": SIZES,
    "test_sizes.py::test_a_size_not_seen_before_gives_the_bits_of_a_pipeline_of_its_own[RandomShortestSize": SIZES,
    "test_values.py::test_seeds_and_steps_differ[RandomCropFromBorders": SIZES,
    "test_values.py::test_seeds_and_steps_differ[RandomShortestSize": SIZES,
    "test_values.py::test_seeds_and_steps_differ[RandomRescale": SIZES,
    "test_values.py::test_unbatched_empty_and_video[ISONoise": "torch warns of the deviation of an empty picture",
    "test_targets.py::test_a_dot_lands_where_its_keypoint_does[RandomMaskCrop": "its crop leaves no dot to look at",
    "test_targets.py::test_a_dot_lands_where_its_keypoint_does[RandomCropFromBorders": "its crop leaves no dot to look at",
}
"""The end of a case's name -> why it fails."""
