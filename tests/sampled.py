"""Tests of which the default run takes some cases, evenly spread.

`sampled` marks the others as slow, which ``make test-all`` runs. `EVERY` lists functions that are long because they have many cases
or compile much: there, the others are marked ``long``, and CI runs them as well (``make test-long``).
"""

from collections import Counter
from collections.abc import Iterable, Sequence

import pytest

EVERY = {
    "audit/test_corpus.py::test_clean_function_raises_no_alarm": 8,
    "audit/test_corpus.py::test_planted_bug_is_found": 7,
    "audit/test_defects.py::test_another_layout_shape_sign_or_call_is_tried": 5,
    "audit/test_defects.py::test_no_effect_is_a_finding": 2,
    "audit/test_defects.py::test_the_guilty_line_is_blamed_and_not_the_harmless_one": 2,
    "audit/test_edition.py::test_bug_is_found": 4,
    "audit/test_edition.py::test_clean_function_raises_no_alarm": 5,
    "audit/test_reports.py::test_the_command_returns_the_exit_code": 0,
    "audit/test_transforms.py::test_the_audit_finds_nothing_above_a_note": 7,
    "boxes/test_transform.py::test_gradients": 2,
    "cli/test_gallery.py::test_every_example_does_something": 3,
    "compile/test_compile.py::test_dynamic_shapes_from_the_first_call": 14,
    "compile/test_compile.py::test_dynamic_shapes_with_gradients_by_default": 3,
    "compile/test_compile.py::test_export_by_default": 6,
    "compile/test_compile.py::test_fullgraph_one_graph_for_five_draws_and_two_for_five_batch_sizes": 80,
    "contract/test_gradients.py::test_checkpoint_gives_the_eager_gradient": 2,
    "contract/test_gradients.py::test_degenerate_images_have_finite_gradients": 8,
    "contract/test_gradients.py::test_every_drawn_value_is_declared_and_has_that_gradient": 33,
    "contract/test_gradients.py::test_image_gradient": 74,
    "contract/test_gradients.py::test_image_gradient_with_the_usual_draw": 39,
    "contract/test_gradients.py::test_second_order": 6,
    "contract/test_gradients.py::test_vmap_over_images": 2,
    "contract/test_maps.py::test_a_map_is_inverse_then_apply_for_every_pair": 4,
    "contract/test_maps.py::test_what_both_views_show_is_visible": 3,
    "contract/test_own_transforms.py::test_the_audit_holds": 2,
    "contract/test_own_transforms.py::test_the_contract_holds": 5,
    "contract/test_targets.py::test_mask_agrees_with_a_nearest_image": 2,
    "contract/test_targets.py::test_masks_keep_dtype_and_labels": 8,
    "contract/test_values.py::test_any_number_of_channels_or_a_clear_error": 3,
    "contract/test_values.py::test_batch_equals_loop": 8,
    "contract/test_values.py::test_callable_on_its_own": 2,
    "contract/test_values.py::test_dtype_is_kept_and_close": 17,
    "contract/test_values.py::test_layouts": 7,
    "contract/test_values.py::test_prefix_of_a_larger_batch": 2,
    "contract/test_values.py::test_resting_form_changes_nothing": 8,
    "contract/test_values.py::test_saved_record_replays": 2,
    "contract/test_values.py::test_seeds_and_steps_differ": 3,
    "contract/test_values.py::test_serialisation_round_trip": 3,
    "contract/test_values.py::test_unbatched_empty_and_video": 5,
    "corruptions/test_call.py::test_the_gradient_is_the_declared_one": 2,
    "draws/test_distributions.py::test_ranges_stay_ordered_under_rough_training": 2,
    "draws/test_recomputation.py::test_a_compiled_checkpoint_has_the_gradient_of_its_draw": 2,
    "draws/test_recomputation.py::test_running_a_compiled_pipeline_again_is_refused": 0,
    "draws/test_workers.py::test_nothing_repeats_between_workers_and_epochs": 3,
    "estimators/test_choices.py::test_learned_choices_are_unbiased": 4,
    "estimators/test_discrete.py::test_the_boundary_is_right_for_a_threshold": 2,
    "features/test_patches_gradients.py::test_gradients_to_image_and_frames": 3,
    "functional/test_docs.py::test_pages_run": 2,
    "functional/test_dtypes.py::test_resize": 8,
    "functional/test_dtypes.py::test_the_bits_of_a_cast_before_and_after": 8,
    "functional/test_dtypes.py::test_wide_unsigned_labels_are_moved_bit_for_bit": 2,
    "functional/test_failures.py::test_a_matrix_without_meaning_shows_the_border_value_and_has_no_gradient": 8,
    "functional/test_gradients.py::test_every_border_and_interpolation": 8,
    "functional/test_gradients.py::test_first_order": 8,
    "functional/test_reaching.py::test_slopes_are_those_of_the_blurred_picture": 8,
    "guide/test_gradient_safety.py::test_block": 8,
    "guide/test_no_inplace.py::test_source_does_not_write_to_its_arguments": 4,
    "guide/test_pages.py::test_the_page_prints_what_it_says": 5,
    "kernels/test_canvases.py::test_derivatives_are_those_of_finite_differences": 2,
    "kernels/test_capture.py::test_no_transform_touches_the_host": 24,
    "kernels/test_color_steps_triton.py::test_several_chunks_other_channels_and_layouts": 0,
    "kernels/test_color_steps_triton.py::test_some_of_the_steps": 2,
    "kernels/test_compiling.py::test_two_processes_that_compile_at_once_keep_both_results": 0,
    "kernels/test_convolve_triton.py::test_equals_the_reference_in_double": 10,
    "kernels/test_convolve_triton.py::test_maps_and_second_derivatives": 0,
    "kernels/test_convolve_triton.py::test_operators": 0,
    "kernels/test_copies.py::test_colour_alone_is_one_such_copy": 2,
    "kernels/test_fallbacks.py::test_a_damaged_file_is_written_anew": 0,
    "kernels/test_footprint.py::test_slow_gradcheck": 3,
    "kernels/test_footprint.py::test_where_nothing_is_turned_it_is_a_resize": 2,
    "kernels/test_noise.py::test_contract": 2,
    "kernels/test_noise_triton.py::test_noise_and_its_gradients": 4,
    "kernels/test_resize_contract.py::test_pipeline_compiles_to_one_graph_that_keeps_the_operator": 0,
    "kernels/test_triton_agreement.py::test_adjoint": 0,
    "kernels/test_triton_agreement.py::test_bicubic_equals_the_reference_in_double": 3,
    "kernels/test_triton_agreement.py::test_borders_collect_what_lies_outside": 3,
    "kernels/test_triton_agreement.py::test_every_chain_of_stages": 2,
    "kernels/test_triton_agreement.py::test_single_precision_is_as_precise_as_the_reference": 0,
    "kernels/test_triton_dtypes.py::test_the_bits_of_a_cast_before_and_after": 7,
    "kernels/test_triton_everywhere.py::test_every_way_to_read_with_a_field": 2,
    "kernels/test_triton_everywhere.py::test_many_channels_share_one_field": 2,
    "kernels/test_triton_pipeline.py::test_pictures_are_those_of_the_reference": 3,
    "kernels/test_warp_everywhere.py::test_pipelines_convert_nothing_before_or_after_the_pass": 2,
    "laws/test_exact.py::test_flips_and_identity": 8,
    "laws/test_warp_laws.py::test_adjoint": 2,
    "laws/test_warp_laws.py::test_linear_in_the_image": 2,
    "nn/test_contracts.py::test_compiles_into_one_graph": 3,
    "oracle/test_nearest_ties.py::test_every_pair_of_sizes": 3,
    "oracle/test_nearest_ties.py::test_half_way_in_the_frame_that_is_resized": 29,
    "policy/test_adversarial.py::test_changing_p_compiles_nothing_anew": 0,
    "policy/test_adversarial.py::test_gradients_of_both_orders": 3,
    "policy/test_choices.py::test_branches_that_crop_share_a_pass": 0,
    "policy/test_choices.py::test_fused_each_sample_goes_its_own_way": 0,
    "policy/test_choices.py::test_unfused_each_sample_goes_its_own_way": 0,
    "policy/test_published.py::test_each_operation_makes_torchvisions_picture": 2,
    "ragged/test_front.py::test_every_sample_is_the_call_with_its_picture_alone": 8,
    "ragged/test_front.py::test_every_transform_takes_lists": 3,
    "registration/test_align.py::test_every_loss_finds_a_shift": 2,
    "registration/test_align.py::test_normal_equations_are_those_of_autograd": 5,
    "tape/test_lowering.py::test_a_draw_that_nobody_looks_at_moves_pixels_alike": 8,
    "tape/test_lowering.py::test_gradients_to_images_agree": 8,
    "tape/test_sizes.py::test_a_size_not_seen_before_gives_the_bits_of_a_pipeline_of_its_own": 9,
    "tape/test_sizes.py::test_ten_thousand_sizes_need_the_memory_of_few": 0,
    "test_canvases.py::test_around_one_interpolation_nothing_but_rounding_differs": 2,
    "test_canvases.py::test_whole_pixel_chains_are_slices_and_pads": 8,
    "test_figures.py::test_every_kind_of_batch_is_shown": 3,
    "test_mixing.py::test_mixing_compiles_to_one_graph": 0,
    "test_openings.py::test_the_result_is_that_of_all_passes_over_all_samples": 5,
    "views/test_views.py::test_constant_logits_come_back_as_they_were": 5,
}
"""One in so many of a function's cases; none for 0."""


def sampled(cases: Iterable, every: int, ids: Sequence[str] | None = None) -> list:
    """Mark all but each ``every``-th case as slow, from the first on."""
    cases = list(cases)
    names = ids or [getattr(case, "name", case) for case in cases]
    return [
        pytest.param(case, id=str(name), marks=[pytest.mark.slow] if n % every else [])
        for n, (case, name) in enumerate(zip(cases, names, strict=True))
    ]


def mark_long(items: Iterable[pytest.Item]) -> None:
    """Mark the cases of the functions in `EVERY` that the default run leaves out, those already slow not counted."""
    seen: Counter[str] = Counter()
    for item in items:
        name = item.nodeid.partition("[")[0].removeprefix("tests/")
        every = EVERY.get(name)
        if every is None or item.get_closest_marker("slow"):
            continue
        if not every or seen[name] % every:
            item.add_marker(pytest.mark.long)
        seen[name] += 1
