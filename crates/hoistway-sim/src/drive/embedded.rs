//! The drive files of the repository, embedded.

macro_rules! embed {
    ($($id:literal),* $(,)?) => {
        &[$(($id, include_str!(concat!("../../drives/", $id, ".toml")))),*]
    };
}

/// Id and text of every file in `drives/`, sorted by id; a test compares the list with the folder.
pub(super) const EMBEDDED: &[(&str, &str)] = embed![
    "cloud-gp3",
    "emmc-5.1-64g",
    "fixed-100us",
    "hdd-nearline-16tb",
    "hdd-nearline-18tb-dual-actuator",
    "hdd-smr-8tb",
    "hdd-smr-8tb-worn",
    "hitachi-hts727550a9e364",
    "intel-320-160g",
    "intel-dc-s3520-240g",
    "laptop-hdd-2009",
    "laptop-hdd-2009-noncq",
    "maxtor-6l080l0",
    "maxtor-7l250s0",
    "maxtor-stm3320613as",
    "microsd-a2",
    "netbook-flash-2009",
    "null-block",
    "nvme-consumer-gen4",
    "nvme-dramless-gen4",
    "nvme-enterprise-gen4",
    "plextor-px-256m5s",
    "samsung-970-pro",
    "sata-qlc-1tb",
    "sd-card-2009",
    "usb-ssd-enclosure",
    "usb-stick-32g",
    "virtio-blk",
];
