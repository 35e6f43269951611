"""Every command that the documents show in ```console blocks: run by the tests, or excused with a reason.

A command that is neither fails `test_documents.py`, so its author decides here how it is checked.
"""

from __future__ import annotations

RUN: dict[str, int] = {
    "./bufferlab --help": 0,
    "./bufferlab doctor": 0,
    "./bufferlab list experiments": 0,
    "./bufferlab run buffer-size --dry-run": 0,
    "./bufferlab run script --dry-run": 0,
    "./bufferlab run script --engine postgres --dry-run": 0,
    "./bufferlab run experiments/script/pgbench.postgres.sql --engine postgres --dry-run": 0,
    "./bufferlab curve tests/fixtures/traces/ten.csv": 0,
    "./bufferlab curve tests/fixtures/traces/ten.csv --page-size 16KiB --sizes 50%,48KiB --json": 0,
    "./bufferlab curve tests/fixtures/traces/libcachesim.csv --columns time=timestamp,page=obj_id": 0,
    "./bufferlab audit tests/fixtures/audit/page-size.txt tests/fixtures/audit/buffer-size.txt "
    "tests/fixtures/audit/scan-depth.txt": 0,
}
"""Commands to run unchanged from the root of the repository, with their exit codes."""

EXCUSED: dict[str, str] = {
    "./test": "the command that runs these tests",
    "sudo bufferlab learn /usr/sbin/mariadbd": "tests/real/test_learn.py learns fetched builds",
    "sudo bufferlab learn --pid 1234": "tests/real/test_learn_pid.py learns the builds of servers that run",
    "bufferlab learn /usr/sbin/mysqld": "tests/real/test_learn.py learns fetched builds",
    "bufferlab learn /usr/lib/postgresql/17/bin/postgres": "tests/real/test_learn.py learns fetched builds",
    "./test --lint": "a part of the command that runs these tests",
    "tools/simulate-statistics": "takes twenty minutes; tests/unit/test_stats_coverage.py runs its --quick form",
    "tools/campaign": "takes an hour; tests/unit/test_campaign.py tries its checkers",
    "tools/campaign --only fuzz --minutes 10": "as the one above",
    "tools/campaign --minutes 0": "as the one above",
    "tools/advice-cells /var/tmp/advice": "takes an hour and a half, as root",
    "tools/prediction-cells /var/tmp/cells": "takes an hour and a half, as root",
    "tools/prediction-cells /var/tmp/borders --borders": "takes an hour, as root",
    "tools/prediction-cells /var/tmp/newer --newer": "takes an hour, as root",
    "tools/prediction-cells /var/tmp/no-run --no-run": "takes an hour, as root",
    "tools/write-cells /var/tmp/write-cells": "takes half an hour for each server, as root",
    "tools/labs runs/labs": "takes half an hour, and fetched servers; tests/real/test_labs.py runs it",
    "./bufferlab engines fetch mysql-5.7 postgres-17": "of tools/labs, as the ones below down to its reports; "
    "tests/unit/test_labs.py reads their options",
    "./bufferlab engines fetch mysql-5.7": "as the one above",
    "./bufferlab engines fetch postgres-17": "as the one above",
    "./bufferlab run page-size --engine mysql --server mysql-5.7 --set pool_size=38MiB --sweep page_size=4k,8k,16k": (
        "of tools/labs"
    ),
    "./bufferlab run buffer-size --engine mysql --server mysql-5.7 --sweep pool_size=12.8%,25.6%,32%,44.8%,51.2%": (
        "of tools/labs"
    ),
    "./bufferlab run scan-depth --server mysql-5.7 --sweep lru_scan_depth=128,512,1024,2048,8192": ("of tools/labs"),
    "./bufferlab run hot-rows --engine mysql --server mysql-5.7 --sweep page_size=4k,16k "
    "--sweep layout=scattered,clustered --sweep hot_rows=50%,90%,110%,150%,200% --repetitions 2": "of tools/labs",
    "./bufferlab run random-read --repetitions 3": "of tools/labs",
    "./bufferlab run random-read --set device=as_is --sweep read_ahead=as_is --repetitions 3": "of tools/labs",
    "./bufferlab run index-scan --engine postgres --server postgres-17 --sweep plan=index_scan,bitmap,sequential "
    "--sweep read_ahead=128,0 --repetitions 3": "of tools/labs",
    "./bufferlab run index-scan --engine postgres --server postgres-17 --set memory_limit=off --repetitions 3": (
        "of tools/labs"
    ),
    "./bufferlab report runs/page-size-20260101-120000 --format pdf "
    '--author "Ada Example, 12345" --course "Databases, week 3"': "of tools/labs",
    "./bufferlab report runs/scan-depth-20260101-120000 --format pdf "
    '--author "Ada Example, 12345" --course "Databases, week 3"': "of tools/labs",
    "./bufferlab report runs/hot-rows-20260101-120000 --format pdf "
    '--author "Ada Example, 12345" --course "Databases, week 3"': "of tools/labs",
    "./bufferlab report runs/random-read-20260101-120000 --format pdf "
    '--author "Ada Example, 12345" --course "Databases, week 3"': "of tools/labs",
    "./bufferlab report runs/index-scan-20260101-120000 --format pdf "
    '--author "Ada Example, 12345" --course "Databases, week 3"': "of tools/labs",
    "make wheel": "takes five minutes; tests/real/test_wheel.py runs it",
    "make bench": "takes a minute alone on the machine; its small size runs with cargo test",
    "make bench-pages": "takes five minutes alone on the machine; tests/real/test_page_trace.py records traces",
    ".venv/bin/python benches/curve.py FILE.oracleGeneral --peer PYTHON": "needs libcachesim, and a minute alone",
    ".venv/bin/python benches/generate.py --peer PYTHON": "takes minutes; tests/unit/test_benches.py plays its job",
    ".venv/bin/python benches/predict.py RUN --peer PYTHON --measured SWEEP": "as the one above",
    ".venv/bin/python benches/predict_threads.py RUN --pools 5%,8%,11%,14% --before CHECKOUT": "as the one above",
    "PYTHONPATH=python .venv/bin/python benches/page_trace_join.py": "takes four minutes alone on the machine; "
    "tests/unit/test_page_trace_tools.py tests its table",
    "PYTHONPATH=python .venv/bin/python benches/page_trace_sweep.py": "takes half an hour alone; as above",
    "PYTHONPATH=python .venv/bin/python benches/page_trace_cost.py --server mysql-5.7 mysql-8.0 postgres-17 "
    "--pairs 32": "takes an hour alone; as above",
    "PYTHONPATH=python .venv/bin/python benches/page_trace_cost.py --server mysql-5.7 --pairs 16 --pool 20%": "takes "
    "twelve minutes alone; as above",
    "PYTHONPATH=python .venv/bin/python benches/page_trace_cost.py --server postgres-17 --pairs 16 --pool 20% "
    "--set debug_io_direct=data": "takes eleven minutes alone; as above",
    "PYTHONPATH=python .venv/bin/python benches/advise_cost.py --pairs 16 --state /var/tmp/advise-cost": "takes an "
    "hour alone, as root; tests/unit/test_benches.py tries its job",
    "PYTHONPATH=python .venv/bin/python benches/advise_cost.py --rate 16000 --state /var/tmp/advise-rate": "takes half "
    "an hour alone; as above",
    "PYTHONPATH=python .venv/bin/python benches/tls_round_trip.py --pairs 5": "takes minutes alone; "
    "tests/unit/test_benches.py tries its jobs",
    "PYTHONPATH=python .venv/bin/python benches/tpcc_mysql.py --peer tpcc-mysql/tpcc_start": "takes minutes alone, and "
    "needs tpcc-mysql; tests/unit/test_benches.py tries its jobs",
    "tools/page-trace-builds /var/tmp/page-trace-builds": "takes half an hour, and fetched servers; as above",
    "make bench-mysql": "takes five minutes alone on the machine, and sysbench",
    "make bench-storage": "takes a quarter of an hour alone on the machine, root, and fio",
    "./bufferlab run buffer-size --warehouses 20 --sweep pool_size=12.8%,25.6%,32%,44.8%,51.2% "
    "--repetitions 2 --transactions 30000": "takes a quarter of an hour and 4 GB of disk",
    "./bufferlab run concurrency --server mysql-5.7": "takes half an hour, and a fetched server; tests/real runs its "
    "smoke size",
    "./bufferlab run concurrency --engine postgres --server postgres-17": "as the one above",
    "./bufferlab run buffer-size": "takes five to fifteen minutes; its --quick form is run by tests/cli",
    "./bufferlab run buffer-size --quick": "run by tests/cli, with a folder of its own for the results",
    "./bufferlab run my.sql": "there is no such file; tests/real/test_scripts.py runs scripts",
    "./bufferlab script-from-slow-log slow.log -o mine.sql": "as the one above; tests/cli/test_script_from_slow_log.py",
    "./bufferlab run my.sql --set data=tpcc --sweep pool_size=10%,40%": "as the one above",
    "mysqldump --single-transaction --routines app > app.sql": "MySQL's own; tests/support/dumps.py calls it",
    "pg_dump -Fc --file=app.dump app": "PostgreSQL's own; as the one above",
    "./bufferlab run mine.sql --load app.sql --server mysql-8.0 --sweep pool_size=5%,10%,20%": "there is no such file, "
    "and it needs a fetched server; tests/real/test_dumps.py runs scripts on dumps",
    "./bufferlab run mine.sql --load app.dump --server postgres-17 --sweep pool_size=5%,10%,20%": "as the one above",
    "./bufferlab compare runs/before runs/after": "tests/cli/test_compare_command.py runs it on folders that exist",
    './bufferlab compare runs/before runs/after --fail-if "reads_per_new_order worse 5%"': "test_compare_rules.py does",
    "./bufferlab compare runs/buffer-size-20260101-120000 --between pool_size=10% pool_size=20%": "as the one above",
    "./bufferlab history runs/buffer-size-*": "tests/cli/test_history_command.py runs it on folders that exist",
    "./bufferlab history 3f2a91c=runs/one 8be01d4=runs/two --order commits.txt --html history.html": "as the one above",
    './bufferlab history runs/buffer-size-* --fail-if "reads_per_new_order worse 5%"': "as the one above",
    "tools/history-alarms": "takes a quarter of an hour; tests/unit/test_stats_changes.py does the same with fewer",
    "./bufferlab report runs/buffer-size-20260101-120000 --format tpcc-mysql": "as the one above",
    "./bufferlab report runs/buffer-size-20260101-120000 --format pdf "
    '--author "Ada Example, 12345" --course "Databases, week 3"': "needs Typst, which ./test --all installs; "
    "tests/real/test_lab_report.py runs it",
    "./bufferlab run buffer-size --quick --probe block-trace": "needs root; tests/real/test_block_trace.py runs it",
    "./bufferlab report runs/buffer-size-20260101-120000 --format blkparse": "as the one above",
    "./bufferlab run buffer-size --quick --sweep pool_size=20% --probe page-trace": "tests/real/test_page_trace.py",
    "./bufferlab curve runs/buffer-size-20260101-120000 --by table --html curve.html": "as the one above",
    "./bufferlab run buffer-size --engine mysql --server mysql-5.7 --sweep pool_size=30% --probe page-trace": "root, a "
    "fetched server; tests/real/test_page_trace_servers.py records such traces",
    "./bufferlab run experiments/script/pgbench.postgres.sql --engine postgres --server postgres-17 --connections 1 "
    "--transactions 20000 --sweep pool_size=64MiB --repetitions 1 --probe page-trace": "takes a minute, and a fetched "
    "server; its --dry-run is run here",
    "./bufferlab predict runs/script-20260101-120000 --sweep pool_size=32MiB,64MiB,128MiB": "of the one above",
    "./bufferlab curve runs/buffer-size-20260101-120000 --svg curve.svg": "as the one above",
    "./bufferlab run tests/fixtures/page-trace/pool-sizes.toml --probe page-trace": "as the one above, in --quick form",
    "./bufferlab accuracy runs/buffer-size-20260101-130000 runs/buffer-size-20260101-140000": "as the next",
    "./bufferlab predict runs/buffer-size-20260101-120000": "tests/unit/test_predict.py runs it on made traces",
    "./bufferlab predict runs/buffer-size-20260101-120000 --sweep pool_size=10%,20%,30%,40%,50%": "as the one above",
    "./bufferlab predict buffer-size --engine mysql --server mysql-5.7 --set warehouses=4 "
    "--sweep pool_size=15%,25%,60%": "tests/unit/test_generated.py predicts smaller databases",
    "./bufferlab predict hot-rows --quick": "tests/unit/test_generated.py predicts hot rows",
    "./bufferlab predict hot-rows --engine mysql --server mysql-5.7 --sweep hot_rows=500,1000,2000": "as the one above",
    "./bufferlab predict buffer-size --engine postgres --server postgres-17 --set warehouses=4 "
    "--sweep pool_size=12%,25%,40%,70%": "as the one above",
    "./bufferlab run buffer-size --engine postgres --server postgres-17 --warehouses 4 "
    "--sweep pool_size=12%,25%,40%,70% --repetitions 3 --no-page-trace": "takes four minutes, and a fetched server",
    "./bufferlab accuracy runs/buffer-size-20260101-130000 runs/buffer-size-20260101-120000 --svg figure.svg": "as the "
    "other accuracy",
    "./bufferlab predict buffer-size --engine mysql --server mysql-5.7 --set warehouses=10000": "takes a minute; "
    "tests/unit/test_generated.py predicts as many warehouses",
    "./bufferlab predict buffer-size --engine mysql --server mysql-5.7 --set warehouses=10000 "
    "--sweep pool_size=30%": "as the one above",
    "./bufferlab predict buffer-size --engine mysql --server mysql-5.7 --set warehouses=20 "
    "--sweep pool_size=5%,10%,20%,30%,40%,60%,80%": "as the one above",
    "tools/scale-table /var/tmp/scale": "takes ten minutes of one core",
    "tools/scale-errors /var/tmp/scale-errors": "takes a quarter of an hour of one core",
    "./bufferlab run redo-size --server mysql-5.7": "takes half an hour and a fetched server; its plan is tested",
    "./bufferlab run redo-size --server mysql-5.7 --repetitions 2 --sweep redo_log_capacity=16MiB,32MiB,64MiB": "as "
    "the one above",
    "./bufferlab run redo-size --engine postgres --server postgres-17": "as the one above",
    "./bufferlab run scan-depth --server mysql-5.7": "takes half an hour and a fetched server; its plan is tested",
    "./bufferlab run scan-depth --server mysql-5.7 --duration 30s": "as the one above",
    "./bufferlab run scan-depth --engine mariadb --server mariadb-10.11": "as the one above",
    "./bufferlab run page-size --engine mysql --server mysql-5.7 --full --set old_blocks_time=0 "
    "--sweep page_size=4k,8k,16k --transactions 40000 --repetitions 3": "takes a quarter of an hour, and a server",
    "./bufferlab run buffer-size --engine mysql --server mysql-5.7 --warehouses 4 --set pool_size=100MiB "
    "--sweep skew=spec,tpcc-mysql,uniform": "takes six minutes and a fetched server",
    "./bufferlab run memory-split": "takes half an hour, a PostgreSQL server and the right to make a cgroup",
    "./bufferlab run memory-split --quick": "as the one above; tests/real/test_postgres_runs.py limits memory",
    "./bufferlab run memory-split --server postgres-17 --repetitions 4 --sweep pool_size=4MiB,16MiB,32MiB,64MiB,96MiB,"
    "112MiB,128MiB,144MiB": "takes half an hour, as the first",
    "./bufferlab run buffer-size --engine postgres --server postgres-17": "takes four minutes, and a fetched server",
    "./bufferlab run hot-rows --engine postgres --server postgres-17": "takes a quarter of an hour, and as above",
    'ssh a "cd bufferlab && ./bufferlab run buffer-size --blocks 1-3 --out fleet" & ssh b "cd bufferlab && ./bufferlab '
    'run buffer-size --blocks 4-5 --out fleet"; wait': "needs two hosts; tests/real/test_blocks.py runs blocks",
    "scp -r a:bufferlab/fleet fleet-a; scp -r b:bufferlab/fleet fleet-b": "as the one above",
    "./bufferlab merge fleet-a/buffer-size-* fleet-b/buffer-size-* --out runs/fleet": "as the one above",
    "RAY_AUTH_MODE=token ./bufferlab run buffer-size --ray 10.0.0.1:6379": "needs a cluster; "
    "tests/real/test_fleet_ray.py starts one",
    "RAY_AUTH_MODE=token ./bufferlab run --resume runs/buffer-size-20260101-120000.fleet --ray 10.0.0.1:6379": "as the "
    "one above",
    "./bufferlab run noise": "takes five minutes; tests/unit/test_noise.py runs such a sweep on the fake engine",
    "./bufferlab run hot-rows": "takes five minutes; tests/cli runs its --smoke form",
    "./bufferlab run buffer-size --engine mysql --server mysql-5.7 --full --set old_blocks_time=0 --transactions 40000 "
    "--repetitions 3": "takes twenty minutes; tests/real runs buffer-size on MySQL in its --smoke form",
    "./bufferlab run buffer-size --engine mysql --server mysql-5.7 --full --set old_blocks_time=0 --transactions 40000 "
    "--repetitions 4 --sweep pool_size=1024MiB --sweep buffer_pool_instances=1,8": "takes ten minutes, and a server",
    "./bufferlab run hot-rows --engine mysql --server mysql-5.7 --full --set old_blocks_time=0 --set layout=scattered "
    "--sweep page_size=4k,16k --sweep hot_rows=80%,120%,160%,200% --transactions 20000 --repetitions 2": "takes a "
    "quarter of an hour, 10 GB of disk, and a fetched server",
    "./bufferlab run index-scan": "takes five minutes; tests/real/test_index_scan.py runs its --smoke form",
    "./bufferlab run index-scan --engine postgres --server postgres-17 --full --sweep "
    "plan=index_scan,bitmap,sequential --sweep read_ahead=128,0 --repetitions 3": "takes ten minutes, and root",
    "./bufferlab run index-scan --quick": "as the one above",
    "./bufferlab run index-scan --engine mysql": "as the one above, and needs a server",
    "./bufferlab run index-scan --sweep ship_until=1993-01-01,1995-01-01,1998-09-03 --set plan=index_scan": "as above",
    "./bufferlab run page-size": "takes five minutes; tests/cli runs its --smoke form",
    "./bufferlab run random-read": "takes minutes and needs root; tests/cli runs its --smoke form",
    "./bufferlab run random-read --set path=/dev/sdb --set device=as_is": "there is no such disk everywhere",
    "./bufferlab run random-read --set device=as_is --sweep read_ahead=as_is": "as the first, without root",
    "./bufferlab run erratic-io --repetitions 4": "as the one below",
    "./bufferlab run erratic-io": "takes ten minutes and needs root; tests/cli runs its --smoke form",
    "PYTHONPATH=python .venv/bin/python benches/random_read_fio.py": "takes half an hour and needs fio",
    "./bufferlab run open-loop": "takes five minutes; tests/cli runs its --smoke form",
    ".venv/bin/pytest -m slow -s tests/real/test_a_a.py": "takes ten minutes; an unmarked test runs one pair",
    "./bufferlab run buffer-size --full": "takes hours; its --dry-run is run by tests/cli",
}
"""Commands that these tests do not run, with the reasons."""
