"""The attack suite against every backend: each class of attacks, with the reason for each that did not hold."""

import pytest

from marft_envs.sandbox.attacks import CATALOGUE, run_attacks

pytestmark = pytest.mark.attacks
CLASSES = sorted({attack.klass for attack in CATALOGUE})


def _faults(judge, attacks):
    reports = run_attacks(judge, [attack.name for attack in attacks])
    assert len(reports) == sum(judge.backend not in attack.open_on for attack in attacks)
    return [f"{report.name} ({report.goal}): {report.reason}" for report in reports if not report.held]


@pytest.mark.parametrize("klass", CLASSES)
def test_every_attack_of_a_class_is_held(judge, klass):
    assert _faults(judge, [attack for attack in CATALOGUE if attack.klass == klass and not attack.slow]) == []


@pytest.mark.slow
def test_what_uses_up_the_compiler_is_held(judge):
    assert _faults(judge, [attack for attack in CATALOGUE if attack.slow]) == []
