# bufferlab from its wheel, which `make wheel` puts into dist/. docs/installing.md says how it is run, and which rights
# each probe needs. tests/real/test_wheel.py executes the RUN steps in a bare Debian 12.
FROM debian:12-slim
RUN apt-get update && apt-get install -y --no-install-recommends python3 python3-venv && rm -rf /var/lib/apt/lists/*
COPY dist/*.whl /tmp/
RUN python3 -m venv /opt/bufferlab && /opt/bufferlab/bin/pip install --no-cache-dir /tmp/*.whl && rm /tmp/*.whl
RUN ln -s /opt/bufferlab/bin/bufferlab /usr/local/bin/bufferlab && mkdir /runs
# Databases and results: a volume on a disk, whose device can be seen. The container's own overlay hides it.
VOLUME /runs
WORKDIR /
ENV BUFFERLAB_CACHE=/runs/cache
ENTRYPOINT ["bufferlab"]
CMD ["doctor"]
