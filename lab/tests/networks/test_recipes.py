from __future__ import annotations

from dataclasses import replace

import pytest

from temperance_lab import networks


def test_resnet_recipe_is_that_of_the_paper():
    # He et al. (CVPR 2016), section 4.2: 0.1, divided by 10 at 32k and 48k of 64k steps of 128.
    recipe = networks.RECIPES["resnet-cifar"]
    assert recipe.epochs * 50_000 / recipe.batch_size == pytest.approx(64_000, rel=0.005)
    at = {step: recipe.rate(step / 64_000) for step in (0, 400, 31_999, 32_000, 48_000)}
    assert at == pytest.approx({0: 0, 400: 0.1, 31_999: 0.1, 32_000: 0.01, 48_000: 0.001})


def test_wideresnet_recipe_is_that_of_the_paper():
    # Zagoruyko & Komodakis (2016), section 3: times 0.2 at epochs 60, 120 and 160 of 200.
    recipe = networks.RECIPES["wideresnet-cifar"]
    rates = [recipe.rate(epoch / recipe.epochs) for epoch in (59, 60, 119, 120, 159, 160)]
    assert rates == pytest.approx([0.1, 0.02, 0.02, 0.004, 0.004, 0.0008])


def test_densenet_recipe_is_that_of_the_paper():
    # Huang et al. (2017), section 4.2: divided by 10 at 50 % and 75 % of 300 epochs of 64.
    recipe = networks.RECIPES["densenet-cifar"]
    rates = [recipe.rate(epoch / recipe.epochs) for epoch in (149, 150, 224, 225)]
    assert rates == pytest.approx([0.1, 0.01, 0.01, 0.001])


def test_isic_recipe_is_that_of_the_supplement():
    # Rate 1e-4, times 0.95 every ten epochs of a hundred.
    recipe = networks.RECIPES["resnet200-isic"]
    rates = [recipe.rate(epoch / 100) for epoch in range(100)]
    assert rates == pytest.approx([1e-4 * 0.95 ** (epoch // 10) for epoch in range(100)])


def test_cosine_falls_from_the_rate_to_zero():
    recipe = networks.Recipe(epochs=1, batch_size=1, learning_rate=2.0, cosine=True)
    assert [recipe.rate(u) for u in (0, 0.5, 1)] == pytest.approx([2, 1, 0])
    warm = replace(recipe, warmup=0.5)
    assert [warm.rate(u) for u in (0, 0.25, 0.5)] == pytest.approx([0, recipe.rate(0.25) / 2, 1])
