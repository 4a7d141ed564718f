"""The compose file by its text: there is no container engine where the tests run."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from service.settings import Settings as ServiceSettings
from trainer.settings import Settings as TrainerSettings

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docker-compose.yml").read_text()
COMPOSE: dict[str, Any] = yaml.safe_load(TEXT)
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
SETTINGS = {"api": ServiceSettings, "worker": TrainerSettings, "beat": TrainerSettings}


def test_only_the_gateway_is_published_and_on_loopback() -> None:
    published = {name: service["ports"] for name, service in SERVICES.items() if "ports" in service}
    assert published == {"api": ["127.0.0.1:8000:8000"]}
    assert COMPOSE["networks"]["inner"] == {"internal": True}
    assert [name for name, service in SERVICES.items() if "outer" in service["networks"]] == ["api"]
    assert all("inner" in service["networks"] for service in SERVICES.values())


@pytest.mark.parametrize("name", sorted(SETTINGS))
def test_every_ratchet_variable_is_a_setting_of_that_process(name: str) -> None:
    given = {key for key in SERVICES[name]["environment"] if key.startswith("RATCHET_")}
    known = {f"RATCHET_{field.upper()}" for field in SETTINGS[name].model_fields}
    assert given <= known


def test_no_secret_has_a_default_and_the_example_names_every_variable() -> None:
    example = (ROOT / ".env.example").read_text()
    offered = set(re.findall(r"^([A-Z_]+)=", example, flags=re.MULTILINE))
    required = set(re.findall(r"\$\{(\w+):\?", TEXT))
    assert required == {"POSTGRES_PASSWORD", "QDRANT_API_KEY"}
    assert all(f"{name}=\n" in example for name in required)
    optional = set(re.findall(r"\$\{(\w+):-", TEXT))
    assert offered - required <= optional


def test_every_volume_network_and_dockerfile_exists() -> None:
    for service in SERVICES.values():
        assert {volume.split(":")[0] for volume in service.get("volumes", ())} <= set(COMPOSE["volumes"])
        assert set(service["networks"]) <= set(COMPOSE["networks"])
        if "build" in service:
            assert (ROOT / service["build"]["dockerfile"]).is_file()


def test_redis_never_evicts_a_message() -> None:
    assert "noeviction" in SERVICES["redis"]["command"]
