# SPDX-License-Identifier: Apache-2.0
"""Object stores in lakehand.toml: said once, given to readers, Spark and catalogs, and never shown."""

from pathlib import Path
from typing import Any

import pytest

from lakehand.app.plugins import config_of, storage_properties
from lakehand.app.settings import Settings, load
from lakehand.domain.errors import Invalid

FILE = """
warehouses = ["s3://lake/sales"]

[storage.s3]
endpoint = "http://store.internal:9000"
region = "eu-1"
access-key-id = "k"
secret-access-key = "hush"

[storage.s3.buckets."logs.2026"]
region = "eu-2"

[catalogs.central]
type = "rest"
properties = { uri = "http://catalog.internal", warehouse = "s3://lake/central" }

[catalogs.old]
properties = { warehouse = "s3a://lake/old" }
"""


def settings_of(folder: Path, text: str = FILE, **flags: Any) -> Settings:
    file = folder / "lakehand.toml"
    file.write_text(text)
    file.chmod(0o600)
    return load({"home": folder / "home", **flags}, file)


def test_every_format_is_told_how_to_reach_the_buckets(tmp_path: Path) -> None:
    configs = settings_of(tmp_path).plugin_configs()
    for name in ("hudi", "lance", "somebody's"):
        properties = config_of(configs, "table-format", name).properties
        assert properties["s3.endpoint"] == "http://store.internal:9000"
        assert properties["s3.bucket.logs.2026.region"] == "eu-2"
    assert storage_properties(configs)["s3.secret-access-key"] == "hush"


def test_what_a_plugin_says_of_itself_wins(tmp_path: Path) -> None:
    own = '[plugins.table-formats.delta]\nproperties = { "s3.region" = "mine" }\n'
    configs = settings_of(tmp_path, FILE + own).plugin_configs()
    assert config_of(configs, "table-format", "delta").properties["s3.region"] == "mine"
    assert config_of(configs, "table-format", "hudi").properties["s3.region"] == "eu-1"


def test_a_catalog_gets_the_file_settings_under_its_own_names(tmp_path: Path) -> None:
    catalogs = settings_of(tmp_path).catalog_map()
    central = catalogs["central"].properties
    assert central["io-impl"] == "org.apache.iceberg.aws.s3.S3FileIO"
    assert (central["client.region"], central["s3.path-style-access"]) == ("eu-1", "true")
    assert "io-impl" not in catalogs["old"].properties, "Hadoop layout is read by Spark's own file systems"


def test_what_a_catalog_says_of_itself_wins(tmp_path: Path) -> None:
    text = FILE.replace('uri = "http', '"s3.endpoint" = "http://mine", uri = "http')
    assert settings_of(tmp_path, text).catalog_map()["central"].properties["s3.endpoint"] == "http://mine"


def test_a_rest_catalog_whose_warehouse_is_a_name_is_asked_for_credentials_and_falls_back_to_ours(
    tmp_path: Path,
) -> None:
    text = FILE.replace('warehouse = "s3://lake/central"', 'warehouse = "central"')
    central = settings_of(tmp_path, text).catalog_map()["central"]
    for_spark = dict(central.engine_properties)
    assert for_spark["header.X-Iceberg-Access-Delegation"] == "vended-credentials,remote-signing"
    assert (for_spark["s3.access-key-id"], for_spark.get("io-impl")) == ("k", None)
    assert not any("Delegation" in key for key in central.reader_properties)


def test_what_a_catalog_says_of_delegation_wins(tmp_path: Path) -> None:
    text = FILE.replace('uri = "http', '"header.X-Iceberg-Access-Delegation" = "remote-signing", uri = "http')
    for_spark = dict(settings_of(tmp_path, text).catalog_map()["central"].engine_properties)
    assert for_spark["header.X-Iceberg-Access-Delegation"] == "remote-signing"


def test_spark_needs_the_jars_of_s3_as_soon_as_a_warehouse_is_there(tmp_path: Path) -> None:
    assert settings_of(tmp_path).storage_schemes == ("s3",)
    assert settings_of(tmp_path, 'warehouses = ["s3a://lake"]').storage_schemes == ("s3",)
    assert settings_of(tmp_path, 'warehouses = ["/data"]').storage_schemes == ()


def test_a_log_store_of_delta_is_known_to_its_factory(tmp_path: Path) -> None:
    text = '[spark]\n"spark.delta.logStore.s3a.impl" = "io.delta.storage.S3DynamoDBLogStore"\n'
    configs = settings_of(tmp_path, text).plugin_configs()
    known = config_of(configs, "process-factory", "delta").properties
    assert known["delta.log-store"] == "io.delta.storage.S3DynamoDBLogStore"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ('[storage.s3]\naccess-key-id = "k"\n', "access_key_id and secret_access_key belong together"),
        ('[storage.s3]\nendpoint = "store:9000"\n', "it is not an address"),
        ('[storage.s3]\nregio = "x"\n', "storage.s3.regio"),
        ('[storage.s3.buckets.a]\nsecret-access-key = "hush"\n', "belong together"),
    ],
)
def test_half_a_setting_is_refused_by_name_and_without_its_value(text: str, error: str, tmp_path: Path) -> None:
    with pytest.raises(Invalid) as caught:
        settings_of(tmp_path, text)
    assert error in str(caught.value)
    assert "hush" not in str(caught.value)


def test_secrets_are_not_shown(tmp_path: Path) -> None:
    settings = settings_of(tmp_path)
    assert "hush" not in repr(settings)
    assert "hush" not in repr(settings.catalog_map())


def test_a_file_with_keys_that_others_can_read_is_warned_of(tmp_path: Path) -> None:
    (tmp_path / "lakehand.toml").write_text(FILE)
    (tmp_path / "lakehand.toml").chmod(0o644)
    [warning] = load({"home": tmp_path / "home"}, tmp_path / "lakehand.toml").config.warnings
    assert "holds secrets" in warning
