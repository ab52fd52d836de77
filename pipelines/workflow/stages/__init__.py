"""The stages of the workflow: plain functions that read artefacts and fill a folder."""
